// Student's t distribution, which says how far the mean of a few samples may lie from the truth.
#pragma once

namespace mrb {

// The chance that a variable with this distribution is above `t`, which may be negative or infinite.
double student_upper_tail(double t, double degrees_of_freedom);

// The value that it stays below with this chance, in (0, 1). Bisection, to the last digits of a double.
double student_quantile(double chance, double degrees_of_freedom);

}  // namespace mrb
