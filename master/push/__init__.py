"""Jobs and chains on hosts that SSH alone reaches: visits, and who makes them when."""
