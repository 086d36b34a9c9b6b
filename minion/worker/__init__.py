"""The processes of jobs, and the template from which they are forked."""
