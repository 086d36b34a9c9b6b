"""What runs on a host that is reached over SSH, and the words in which it is spoken to."""
