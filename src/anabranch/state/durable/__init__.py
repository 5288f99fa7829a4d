"""Values as bytes and columns that outlive their program."""
