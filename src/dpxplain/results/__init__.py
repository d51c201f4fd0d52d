"""Results as an analyst holds them: answers, questions, explanations, previews."""
