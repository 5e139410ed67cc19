"""The command line, `ahac`: one module per command."""
