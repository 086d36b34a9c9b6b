"""Pillar: per-minion data, targeted by its top file, merged and compiled."""
