"""The results that an analyst works with: answers, questions, explanations, previews."""
