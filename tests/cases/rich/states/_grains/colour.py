def colour():
    return {"colour": "green", "colours": sorted({"red", "green", "blue"})}
