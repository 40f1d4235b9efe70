"""Training: datums in, gradients and optimiser steps out. Knows models, and nothing of requests."""
