"""Files: untrusted ones read within limits, our own written atomically, and which process wrote them."""
