"""`vcctl reservation`: nodes reserved by administrators, and for gangs that wait."""
