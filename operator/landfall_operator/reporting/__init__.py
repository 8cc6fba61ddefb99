"""The operator's reports about a group: status, conditions and texts of Events. Pure."""
