"""Files of records that survive a power cut."""
