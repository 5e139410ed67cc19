"""Studies as pictures: each file draws the arrays of one kind."""
