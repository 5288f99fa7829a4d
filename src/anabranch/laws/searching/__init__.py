"""The search for a case that breaks a law: drawn cases, equations, the smallest case as code."""
