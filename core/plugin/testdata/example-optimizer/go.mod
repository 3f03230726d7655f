module signum.invalid

go 1.26.0

require harness.invalid v0.0.0

// harness has no published home yet: this line names a checkout of it. After a change of it run go mod tidy.
replace harness.invalid => ../../../..
