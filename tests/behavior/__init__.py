"""Contact behavior next to MuJoCo's: `python -m behavior` prints the tables of docs/contact.md."""
