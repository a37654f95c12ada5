-- Clears `isLog` if the numbers of a log contradict each other, because the value is damaged.
isLog = isLog and before <= first and first <= total and total <= MOST
  and oldest <= newest and newest <= latest and latest <= MOST
