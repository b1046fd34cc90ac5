mod paths;
