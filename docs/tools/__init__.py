"""What makes and checks the pages of the site."""
