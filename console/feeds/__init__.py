"""Feeds: where the console's picture comes from. Each yields events, samples or lines; none knows a widget."""
