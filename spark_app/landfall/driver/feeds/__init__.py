"""Files as a source: which are new, who has leased them, and what was asked about one."""
