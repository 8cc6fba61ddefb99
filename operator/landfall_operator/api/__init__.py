"""What users and the API server see: CRD, status, reasons, validation, impact of a change. Pure."""
