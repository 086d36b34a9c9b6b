"""gem.*: packages of Ruby."""
