"""Code that several execution modules use; it imports none of them."""
