"""The command `trnsim`: `main` puts it together, one file per subcommand (or per package that has one)."""
