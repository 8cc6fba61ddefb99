"""Every object that the operator makes for a group, and the rights it needs for that. Pure."""
