"""One suite for all of Beam's runners: what each of them writes is, to the byte, what Beam's local
runner writes.
"""
