"""REPLACEs: lists of objects that replace others, and what they change in the state. Pure."""
