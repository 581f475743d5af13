"""The studies: each reads as question, arms, measures, figures. Importing one does not import torch."""
