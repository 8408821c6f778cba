// Version 5: a record holds the label that was given, and rewards are read by the threshold of the memory. An older
// program would take runs with a reward alone for unlabelled ones. Nothing is indexed anew.
