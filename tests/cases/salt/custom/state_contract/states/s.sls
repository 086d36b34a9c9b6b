a: own.f
b: own.f
