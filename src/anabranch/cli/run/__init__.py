"""`anabranch run`: its flags, the three ways to run a program, and the report."""
