"""The interface for users and operator: the resource, its value types, the driver's contract."""
