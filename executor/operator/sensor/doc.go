// Package sensor is what all sensors share: their keys, and the loop that looks
// until what is waited for has come or the time is up.
//
// A sensor in reschedule mode looks once each time a worker takes it and gives
// its place back between the looks; in poke mode it keeps its place. The times
// count from the start of the attempt, which the state database keeps over all
// reschedules.
//
// It may import dag, dag/retry (Airflow's jitter), executor/fault and
// executor/operator.
package sensor
