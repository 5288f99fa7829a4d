"""Plans: trees of workers, and what makes one valid for a program."""
