"""The search for a case that breaks a law: what is drawn, what must hold, the smallest case as code."""
