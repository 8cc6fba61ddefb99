"""What users and the operator see: the resource, its value types, and the driver's contract."""
