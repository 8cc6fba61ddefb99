"""What the operator reports about a group: its status, its conditions and the texts of Events. Pure."""
