"""Execution functions that need the runtime: mgractionchains, cp, saltutil, grains, pillar."""
