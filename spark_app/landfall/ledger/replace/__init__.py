"""REPLACEs: lists of objects that replace older ones, and what they change in the state. Pure."""
