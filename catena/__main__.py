"""`python -m catena` is the `catena` command."""

from catena.cli.main import main

if __name__ == "__main__":
    main()
