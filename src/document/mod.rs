//! One YAML file with places: a located tree, and diagnostics that name file, line, column and remedy.
