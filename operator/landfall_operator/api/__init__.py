"""The operator's API: CRD, status, reasons, validation, impact of a change. Pure."""
