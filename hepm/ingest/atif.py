NAME = "atif"


def recognises(document):
    return False


def read(document, options):
    return iter(())
