"""The door: what clients ask, who may ask it, and each request carried out once."""
