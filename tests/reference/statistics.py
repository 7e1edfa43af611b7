"""Numbers that scipy gives for tests/stats/{student,intervals}_test.cpp. Debian: python3-scipy."""

import numpy
from scipy import stats
from scipy.stats.mstats import winsorize

print("quantile of 1 - 0.05/6, 7 degrees", repr(float(stats.t.ppf(1 - 0.05 / 6, 7))))
print("quantile of 0.2, 3 degrees", repr(float(stats.t.ppf(0.2, 3))))
print("upper tail of 1.5, 4.5 degrees", repr(float(stats.t.sf(1.5, 4.5))))

samples = numpy.array([0.01, 0.03, -0.02, 0.04, 0.00, 0.02, 0.25, 0.01, -0.01, 0.03, 0.02, 0.01])
inner = numpy.array(winsorize(samples, limits=(1 / 12, 1 / 12)))
n, kept = 12, 10
print("winsorised mean", repr(float(inner.mean())))
print("its standard error", repr(float(inner.std(ddof=1) * (n - 1) / (kept - 1) / n**0.5)))
