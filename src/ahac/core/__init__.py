"""Types and helpers shared by all packages; imports no other package of ahac."""
