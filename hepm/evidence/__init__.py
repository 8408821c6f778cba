"""What came of calls in situations like this one: behind hints, warnings and lessons made without a model."""
