"""What users and the operator see: the resource, its values, and the contract of the driver."""
