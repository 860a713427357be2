"""The application: arguments, feeds, screens, export."""
