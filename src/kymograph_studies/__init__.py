"""The science built on Kymograph: learning rules, networks, data, and the studies that grew out of five scripts."""
